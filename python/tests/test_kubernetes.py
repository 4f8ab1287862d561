"""The files in `examples/ray/` for KubeRay, checked with the schemas of Kubernetes, a schema of the fields of KubeRay that they use, and kubectl.
(test_ray.py runs their job on a cluster.)"""

import copy
import http.server
import json
import os
import pathlib
import shutil
import subprocess
import threading

import pytest

yaml = pytest.importorskip("yaml")
EXAMPLES = pathlib.Path(os.environ.get("PENSTOCK_SOURCE", pathlib.Path(__file__).parents[2]), "examples/ray")
KUBERNETES = "1.34"


def object_of(required, **fields):
    return {"type": "object", "required": required.split(), "additionalProperties": False, "properties": fields}


TEXT, COUNT = {"type": "string", "minLength": 1}, {"type": "integer", "minimum": 0}
TEXTS = {"type": "object", "additionalProperties": TEXT}
NAME = {"type": "string", "pattern": "^[a-z]([-a-z0-9]{0,45}[a-z0-9])?$"}
TEMPLATE = {"type": "object"}  # Kubernetes' own schema checks it
SPECS = {
    "RayCluster": object_of(
        "rayVersion headGroupSpec workerGroupSpecs", rayVersion=TEXT,
        headGroupSpec=object_of("rayStartParams template", rayStartParams=TEXTS, template=TEMPLATE),
        workerGroupSpecs={"type": "array", "items": object_of("groupName rayStartParams template minReplicas maxReplicas", groupName=NAME,
                                                              replicas=COUNT, minReplicas=COUNT, maxReplicas=COUNT, rayStartParams=TEXTS,
                                                              template=TEMPLATE)}),
    "RayJob": object_of("clusterSelector entrypoint", clusterSelector=object_of("ray.io/cluster", **{"ray.io/cluster": NAME}), entrypoint=TEXT,
                        runtimeEnvYAML=TEXT, submissionMode={"enum": ["K8sJobMode", "HTTPMode", "InteractiveMode"]}),
}


def objects(name):
    return list(yaml.safe_load_all((EXAMPLES / name).read_text()))


def templates(cluster):
    return [cluster["spec"]["headGroupSpec"]["template"], *[group["template"] for group in cluster["spec"]["workerGroupSpecs"]]]


def check(each):
    jsonschema = pytest.importorskip("jsonschema")
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    if each["apiVersion"] != "ray.io/v1":
        kubernetes_validate.validate(each, KUBERNETES, strict=True)
        return
    jsonschema.validate(each, object_of("apiVersion kind metadata spec", apiVersion={"const": "ray.io/v1"}, kind={"enum": list(SPECS)},
                                        metadata=object_of("name", name=NAME), spec=SPECS.get(each["kind"], {})))
    if each["kind"] == "RayCluster":
        for template in templates(each):
            kubernetes_validate.validate({"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "any"}, "template": template},
                                         KUBERNETES, strict=True)


def test_schemas_accept_the_files():
    cluster, job = objects("cluster.yaml"), objects("job.yaml")
    assert [each["kind"] for each in cluster + job] == ["PersistentVolumeClaim", "RayCluster", "RayJob"]
    for each in cluster + job:
        check(each)


def spoil(path, value):
    def change(each):
        *way, last = path
        for step in way:
            each = each[step]
        each[last] = value
    return change


WORKERS = ("spec", "workerGroupSpecs", 0)


@pytest.mark.parametrize("number, change", [
    (0, spoil(("spec", "accessMode"), ["ReadWriteMany"])),
    (0, spoil(("spec", "resources", "requests", "storage"), ["2Ti"])),
    (1, spoil((*WORKERS, "rayStartParams", "num-cpus"), 8)),
    (1, spoil((*WORKERS, "replica"), 4)),
    (1, spoil((*WORKERS, "template", "spec", "containers", 0, "volumeMount"), [])),
    (1, spoil((*WORKERS, "template", "spec", "volumes", 1, "ephemeral", "volumeClaimTemplate", "accessModes"), ["ReadWriteOnce"])),
    (2, spoil(("spec", "submissionMode"), "http")),
])
def test_schemas_refuse_what_is_wrong(number, change):
    each = copy.deepcopy((objects("cluster.yaml") + objects("job.yaml"))[number])
    check(each)
    change(each)
    with pytest.raises(Exception) as refused:
        check(each)
    assert "ValidationError" in type(refused.value).__name__


def test_names_in_the_files_exist():
    [claim, cluster], [job] = objects("cluster.yaml"), objects("job.yaml")
    assert job["spec"]["clusterSelector"]["ray.io/cluster"] == cluster["metadata"]["name"]
    assert yaml.safe_load(job["spec"]["runtimeEnvYAML"]) == {"env_vars": {"RAY_ADDRESS": "auto"}}
    for template in templates(cluster):
        volumes = {volume["name"]: volume for volume in template["spec"]["volumes"]}
        [container] = template["spec"]["containers"]
        assert {mount["name"] for mount in container["volumeMounts"]} == volumes.keys()
        assert volumes["shared"]["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
        # Ray counts the resources that a pod is promised.
        assert container["resources"]["requests"] == container["resources"]["limits"]
        paths = {mount["mountPath"] for mount in container["volumeMounts"]}
        assert all(each["value"] in paths for each in container.get("env", []) if each["name"] == "PENSTOCK_TEMP")


class Discovery(http.server.BaseHTTPRequestHandler):
    """The part of Kubernetes' server that kubectl needs before a dry run: the list of kinds. There are no objects."""

    KINDS = {"v1": ["PersistentVolumeClaim"], "ray.io/v1": ["RayCluster", "RayJob"]}
    TOLD = {"/api": {"kind": "APIVersions", "versions": ["v1"]},
            "/apis": {"kind": "APIGroupList", "groups": [{"name": "ray.io", "versions": [{"groupVersion": "ray.io/v1", "version": "v1"}]}]},
            **{("/api/" if group == "v1" else "/apis/") + group: {"kind": "APIResourceList", "groupVersion": group, "resources": [
                {"name": kind.lower() + "s", "singularName": "", "kind": kind, "namespaced": True, "verbs": ["create", "get", "patch"]}
                for kind in kinds]} for group, kinds in KINDS.items()}}

    def do_GET(self):
        told = self.TOLD.get(self.path.partition("?")[0])
        self.send_response(200 if told else 404)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(told or {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}).encode())

    def log_message(self, *_):
        pass


@pytest.fixture
def kubectl(tmp_path):
    if not shutil.which("kubectl"):
        pytest.skip("kubectl is not installed")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Discovery)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()

    def run(*words):
        done = subprocess.run(["kubectl", "--server", f"http://127.0.0.1:{server.server_port}", *map(str, words)], capture_output=True, text=True,
                              env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "KUBECONFIG": str(tmp_path / "none")})
        return done.returncode, done.stdout.split(), done.stderr

    yield run
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("verb", ["create", "apply"])
def test_kubectl_takes_the_files(kubectl, tmp_path, verb):
    def dry_run(path):
        return kubectl(verb, "--dry-run=client", "--validate=false", "-o", "name", "-f", path)

    assert dry_run(EXAMPLES / "cluster.yaml")[:2] == (0, ["persistentvolumeclaim/penstock-shared", "raycluster.ray.io/penstock"])
    assert dry_run(EXAMPLES / "job.yaml")[:2] == (0, ["rayjob.ray.io/penstock-sort"])
    (tmp_path / "job.yaml").write_text((EXAMPLES / "job.yaml").read_text().replace("kind: RayJob", "kind: RayTask"))
    code, _, said = dry_run(tmp_path / "job.yaml")
    assert code != 0 and "RayTask" in said
