/* SPDX-License-Identifier: Apache-2.0

   Folding, filtering and sorting. Everything can be read without. */
"use strict";
{
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const valueOf = (cell) => (cell && "value" in cell.dataset ? Number(cell.dataset.value) : NaN);
  // What has no value comes last, whatever the order.
  const compare = (a, b, sign) =>
    Number.isNaN(a) || Number.isNaN(b) ? Number.isNaN(a) - Number.isNaN(b) : sign * (a - b);

  for (const controls of all(".controls")) controls.hidden = false;

  for (const box of all(".differences")) {
    box.checked = false;
    box.addEventListener("change", () => {
      for (const table of all(".compare")) table.classList.toggle("only-differences", box.checked);
    });
  }

  for (const order of all(".order")) {
    order.value = "";
    order.addEventListener("change", () => {
      const choice = order.selectedOptions[0];
      const sign = choice.dataset.more === "1" ? -1 : 1;
      const rows = new Map();  // all are ordered by the row as it was before any of them moves
      for (const table of all(".compare")) {
        const row = order.value && table.querySelector(`[data-row="${order.value}"]`);
        for (const one of all("tr", table)) {
          const cells = all("[data-item]", one);
          const by = (cell) =>
            row ? valueOf(row.querySelector(`[data-item="${cell.dataset.item}"]`)) : Number(cell.dataset.item);
          const rank = new Map(cells.map((cell) => [cell, by(cell)]));
          cells.sort((a, b) => compare(rank.get(a), rank.get(b), row ? sign : 1) || a.dataset.item - b.dataset.item);
          rows.set(one, cells);
        }
        for (const [one, cells] of rows) one.append(...cells);
        rows.clear();
      }
    });
  }

  for (const box of all(".fold")) {
    const table = document.getElementById(box.dataset.table);
    // A line above the first of each part that is left.
    let quiet = false;
    for (const row of all("tbody tr", table)) {
      const shown = !row.classList.contains("quiet");
      row.classList.toggle("gap", shown && quiet);
      quiet = !shown;
    }
    const fold = () => table.classList.toggle("folded", box.checked);
    box.checked = true;
    box.addEventListener("change", fold);
    fold();
  }

  for (const table of all(".sortable")) {
    const heads = all("thead th", table);
    heads.forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        // Where it is a number, the most comes first; lines and words begin at the beginning.
        const numbers = head.classList.contains("number");
        const before = head.getAttribute("aria-sort");
        const down = before ? before === "ascending" : numbers;
        for (const other of heads) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const sign = down ? -1 : 1;
        const body = table.tBodies[0];
        const cell = (row) => row.cells[column];
        const sorted = [...body.rows].sort((a, b) =>
          "value" in cell(a).dataset
            ? compare(valueOf(cell(a)), valueOf(cell(b)), sign)
            : sign * cell(a).textContent.localeCompare(cell(b).textContent));
        body.append(...sorted);
      });
    });
  }
}
