// Who did it: a task of Airflow is a link to its run there.

import type { TaskName } from "../api.ts";
import { Outside } from "./marks.tsx";

// A task is a link to its run in Airflow.
export function Author({ author, task }: { author: string; task: TaskName | null }) {
  if (!task?.dag_id)
    return (
      <span class="author" title={author}>
        {author || <span class="faint">unknown</span>}
      </span>
    );
  return (
    <span class="author" title={author}>
      <Outside href={runHref(task)}>
        {task.dag_id}
        {task.task_id && <span class="muted"> {task.task_id}</span>}
      </Outside>
    </span>
  );
}

// The page lies below Airflow's own address; its UI is beside the folder of mounted apps.
export function runHref(task: TaskName): string | null {
  if (!inAirflow) return null;
  const parts = [
    "dags",
    task.dag_id,
    "runs",
    task.run_id,
    ...(task.task_id ? ["tasks", task.task_id] : []),
  ];
  return `${airflowRoot()}/${parts.map(encodeURIComponent).join("/")}`;
}

let inAirflow = false;

export function setInAirflow(value: boolean): void {
  inAirflow = value;
}

function airflowRoot(): string {
  return location.pathname.replace(/\/[^/]+\/?(index\.html)?$/, "");
}
