"""The files of ``deploy/`` are valid, and match the server."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from importlib.metadata import distribution
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from gpt2viz import settings
from gpt2viz.cli.serve import serve
from gpt2viz.serving.health import Health

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
#: Kubernetes: the oldest version whose schema is checked, and the newest that exists.
VERSIONS = ("1.25", kubernetes_validate.latest_version())
#: The Compose Specification's own schema.
SCHEMA = "compose-spec.json"

Parts = dict[str, Any]


@pytest.fixture(scope="module")
def cluster() -> Parts:
    """The documents of the Kubernetes manifest, by kind."""
    text = (DEPLOY / "kubernetes.yaml").read_text(encoding="utf-8")
    return {part["kind"]: part for part in yaml.safe_load_all(text)}


@pytest.fixture(scope="module")
def compose() -> Parts:
    result: Parts = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
    return result


def container(cluster: Parts) -> Parts:
    (result,) = cluster["Deployment"]["spec"]["template"]["spec"]["containers"]
    return dict(result)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_manifest_is_valid(cluster: Parts, version: str) -> None:
    assert set(cluster) == {"Deployment", "PersistentVolumeClaim", "Service", "Ingress"}
    for part in cluster.values():
        kubernetes_validate.validate(part, version, strict=True)
    wrong = cluster["Service"] | {"spec": cluster["Service"]["spec"] | {"prots": []}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, version, strict=True)


def test_the_manifests_parts_refer_to_each_other(cluster: Parts) -> None:
    deployment, service = cluster["Deployment"]["spec"], cluster["Service"]
    labels = deployment["template"]["metadata"]["labels"]
    assert deployment["selector"]["matchLabels"] == service["spec"]["selector"] == labels
    (port,), named = service["spec"]["ports"], container(cluster)["ports"]
    assert port["targetPort"] in [p["name"] for p in named]
    (rule,) = cluster["Ingress"]["spec"]["rules"]
    backend = rule["http"]["paths"][0]["backend"]["service"]
    assert backend == {"name": service["metadata"]["name"], "port": {"name": port["name"]}}
    assert f"--allow-host={rule['host']}" in container(cluster)["args"]
    pod = deployment["template"]["spec"]
    assert {v["name"] for v in pod["volumes"]} == {
        v["name"] for v in container(cluster)["volumeMounts"]
    }
    claims = [v["persistentVolumeClaim"]["claimName"] for v in pod["volumes"][:1]]
    assert claims == [cluster["PersistentVolumeClaim"]["metadata"]["name"]]


def test_the_compose_file_is_valid(compose: Parts) -> None:
    (file,) = (f for f in distribution("check-jsonschema").files or () if f.name == SCHEMA)
    schema = json.loads(file.read_text(encoding="utf-8"))
    jsonschema.validate(compose, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"services": {"gpt2viz": {"prots": []}}}, schema)
    service = compose["services"]["gpt2viz"]
    home = (DEPLOY / service["build"]["context"]).resolve()
    assert (home / service["build"]["dockerfile"]).is_file()


def test_images_are_pinned_and_memory_is_limited(cluster: Parts, compose: Parts) -> None:
    """An image built again next year is the one that was tested."""
    written = (ROOT / "Containerfile").read_text(encoding="utf-8")
    stages = re.findall(r"^FROM (\S+)", written, re.M)
    images = [*stages, *(s["image"] for s in compose["services"].values() if "image" in s)]
    images.append(container(cluster)["image"])
    exact = re.compile(r"[\w./-]+(:\d+\.\d+\.\d+(-[\w-]+)?|@sha256:[0-9a-f]{64})")
    assert [image for image in images if not exact.fullmatch(image)] == []
    assert f"docker push {images[-1]}\n" in (ROOT / "docs/serving.md").read_text(encoding="utf-8")
    assert len({image for image in images if "/caddy:" in image}) == 1  # one Caddy
    assert [name for name, s in compose["services"].items() if "mem_limit" not in s] == []
    assert "memory" in container(cluster)["resources"]["limits"]


def commands(cluster: Parts, compose: Parts) -> Iterator[tuple[list[str], Mapping[str, str]]]:
    """Each command of the manifests, with its environment."""
    spec = container(cluster)
    yield spec["command"] + spec["args"], {e["name"]: e["value"] for e in spec["env"]}
    service = compose["services"]["gpt2viz"]
    yield service["command"], service["environment"]


def test_commands_ports_and_paths_match_the_server(cluster: Parts, compose: Parts) -> None:
    text = "\n".join(file.read_text(encoding="utf-8") for file in DEPLOY.glob("*.yaml"))
    for command, environment in commands(cluster, compose):
        assert command[:4] == ["python", "-m", "gpt2viz", "serve"]
        plain = [part.replace("${WORKERS:-2}", "2") for part in command[4:]]
        context = serve.make_context("serve", list(map(str, plain)))
        assert (context.params["workers"], context.params["host"]) == (2, "0.0.0.0")  # noqa: S104
        assert {settings.MODELS_VARIABLE, settings.CACHE_VARIABLE} <= set(environment)
        ranges = environment[settings.PROXIES_VARIABLE].split(",")
        assert all(ip_network(network).is_private for network in ranges)
    ports = {p.name: p.default for p in serve.params}
    named = {p["name"]: p["containerPort"] for p in container(cluster)["ports"]}
    assert named == {"pages": ports["port"], "metrics": ports["metrics_port"]}
    health = Health([1], [1], [0])
    assert all(path in text and health.answer(path)[0] != 404 for path in ("/healthz", "/readyz"))
    assert f"gpt2viz:{ports['port']}" in (DEPLOY / "Caddyfile").read_text(encoding="utf-8")


def test_the_https_proxy_is_valid_and_logs_no_requests(caddy: str) -> None:
    command = [caddy, "adapt", "--config", str(DEPLOY / "Caddyfile")]
    message = subprocess.run(command, capture_output=True, text=True, check=True)
    logs = json.loads(message.stdout)["logging"]["logs"]
    assert logs["default"]["encoder"]["fields"] == {"request": {"filter": "delete"}}
