"""Checks a manifest of launch/kubernetes: kubernetes_check.py FIELDS MANIFEST prints what is wrong with it."""

import pathlib
import re
import sys

import yaml

TYPES = {"object": dict, "list": list, "string": str, "integer": int, "boolean": bool}
NEEDED = {"PRTE_MCA_prte_default_hostfile": "/etc/mpi/hostfile", "PRTE_MCA_plm_ssh_args": "-o ConnectionAttempts=10"}
ANCESTOR = "trainer.kubeflow.org/trainjob-ancestor-step"

problems = []


def expect(good, problem):
    """Records the problem unless the condition holds."""
    if not good:
        problems.append(problem)


def pattern(path):
    """Returns the pattern of a path in the list of fields."""
    return re.escape(path).replace(r"\*", "[A-Za-z]+")


def check(kind, known, path, value, pods):
    """Compares a value and everything below it with the known fields, and appends the templates of pods."""
    expected = next((row[1] for row in known if re.fullmatch(pattern(row[0].rstrip("!")), path)), None)
    if expected is None:
        problems.append(f"{kind} {path}: unknown field")
    elif expected == "pod":
        pods.append((f"{kind} {path}", value["spec"]))
    elif expected in TYPES:
        good = type(value) is TYPES[expected]
        expect(good, f"{kind} {path}: must be of type {expected}, got {value}")
        if good and expected == "object":
            for key, below in value.items():
                check(kind, known, f"{path}.{key}".lstrip("."), below, pods)
            for name in (row[0] for row in known if row[0].endswith("!")):
                above, _, last = name.rstrip("!").rpartition(".")
                expect(last in value or not re.fullmatch(pattern(above), path), f"{kind} {path}: has no {last}")
        if good and expected == "list":
            for below in value:
                check(kind, known, f"{path}[]", below, pods)
    elif expected != "any":
        expect(value in expected.split("|"), f"{kind} {path}: must be {expected}, got {value}")


def variables(container):
    """Returns the variables of a container."""
    return {entry["name"]: entry.get("value") for entry in container.get("env", [])}


def check_pod(place, spec, set_by_operator):
    """Checks a template of pods, and returns the name of its command."""
    (container,) = spec["containers"]
    env = variables(container)
    expect(not env.keys() & set_by_operator, f"{place}: the operator sets {sorted(env.keys() & set_by_operator)}")
    identity = {"runAsUser": 1000, "runAsGroup": 1000, "fsGroup": 1000}
    expect(spec["securityContext"] == identity, f"{place}: the user must be 1000, and the group that of files")
    expect(spec["terminationGracePeriodSeconds"] >= 60, f"{place}: too little time for a checkpoint")
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    expect(mounted == {volume["name"] for volume in spec["volumes"]}, f"{place}: volumes are not those mounted")
    (command,) = container["command"]
    if command == "/usr/local/share/vaecf_dist/launch/train":
        expect(env == NEEDED, f"{place}: the launcher's variables must be {NEEDED}")
    else:
        expect(command == "/usr/local/share/vaecf_dist/launch/kubernetes/sshd", f"{place}: the command {command}")
        expect(container["readinessProbe"] == {"tcpSocket": {"port": 2222}}, f"{place}: must be ready with port 2222")
    return command.rpartition("/")[2]


def check_mpi_job(spec):
    """Checks what the launcher of an MPIJob relies on."""
    expect(spec["sshAuthMountPath"] == "/etc/mpi_ssh", "the keys must be in /etc/mpi_ssh")
    launcher = spec["mpiReplicaSpecs"]["Launcher"]
    expect(launcher["restartPolicy"] == "OnFailure" and spec["runPolicy"]["backoffLimit"] > 1, "the launcher must restart")


def check_train_job(runtime, job, set_by_operator):
    """Checks what Trainer expects of a runtime and its job."""
    mpi = runtime["mlPolicy"]["mpi"]
    expect(mpi["sshAuthMountPath"] == "/etc/mpi_ssh", "the keys must be in /etc/mpi_ssh")
    expect(mpi["runLauncherAsNode"] and job["trainer"]["numNodes"] >= 2, "the launcher must be one of several nodes")
    expect(runtime["mlPolicy"]["numNodes"] == 1, "numNodes of the runtime is the number of launchers")
    expect(not variables(job["trainer"]).keys() & set_by_operator, "a TrainJob may not set what Trainer sets")
    jobs = {entry["name"]: entry["template"] for entry in runtime["template"]["spec"]["replicatedJobs"]}
    expect(list(jobs) == ["node", "launcher"], f"the replicated jobs must be node and launcher, got {list(jobs)}")
    trainers = [name for name, template in jobs.items() if ANCESTOR in template.get("metadata", {}).get("labels", {})]
    expect(trainers == ["launcher"], f"the trainer must be the launcher, got {trainers}")
    for name, template in jobs.items():
        pod = template["spec"]["template"]["spec"]
        expect(pod["containers"][0]["name"] == "node", f"{name}: the container must be named node")
        expect(pod["restartPolicy"] == "OnFailure" and template["spec"]["backoffLimit"] > 1, f"{name} must restart")


def main():
    """Checks the manifest."""
    fields, manifest = (pathlib.Path(argument).read_text() for argument in sys.argv[1:])
    rows = [line.split(maxsplit=2) for line in fields.splitlines() if line and not line.startswith("#")]
    set_by_operator = {row[1].partition("=")[0] for row in rows if row[0] == "set"}
    documents = {document["kind"]: document for document in yaml.safe_load_all(manifest)}
    pods = []
    for kind, document in documents.items():
        check(kind, [("", "object")] + [row[1:] for row in rows if row[0] == kind], "", document, pods)
    if not problems:
        commands = sorted(check_pod(place, spec, set_by_operator) for place, spec in pods)
        expect(commands == ["sshd", "train"], f"there must be one launcher and one kind of node, got {commands}")
        if "MPIJob" in documents:
            check_mpi_job(documents["MPIJob"]["spec"])
        else:
            check_train_job(documents["TrainingRuntime"]["spec"], documents["TrainJob"]["spec"], set_by_operator)
    print("\n".join(problems))
    return bool(problems)


sys.exit(main())
