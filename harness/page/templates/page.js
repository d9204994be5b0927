"use strict";
// What a page adds where JavaScript runs: sorting, filters by verdict, a table as CSV.
for (const table of document.querySelectorAll("table.data")) {
  const body = table.tBodies[0], heads = [...table.tHead.rows[0].cells];
  const text = (row, index) => row.cells[index].textContent;
  const key = value => { const n = parseFloat(value.replace(/,/g, "")); return isNaN(n) ? null : n; };
  heads.forEach((head, index) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      heads.forEach(each => each.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const rows = [...body.rows].sort((a, b) => {
        const x = text(a, index), y = text(b, index), m = key(x), n = key(y);
        const order = m !== null && n !== null ? m - n : (m === null) - (n === null) || x.localeCompare(y);
        return down ? -order : order;
      });
      body.append(...rows);
    });
  });
  const tools = document.createElement("div");
  tools.className = "tools";
  if (heads[0].textContent === "verdict") {
    const verdicts = [...new Set([...body.rows].map(row => text(row, 0)))];
    for (const verdict of ["all", ...verdicts]) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = verdict;
      button.setAttribute("aria-pressed", verdict === "all");
      button.addEventListener("click", () => {
        for (const other of tools.querySelectorAll("[aria-pressed]")) other.setAttribute("aria-pressed", other === button);
        for (const row of body.rows) row.hidden = verdict !== "all" && text(row, 0) !== verdict;
      });
      tools.append(button);
    }
  }
  const save = document.createElement("button");
  save.type = "button";
  save.textContent = "CSV";
  save.title = "Save this table as CSV";
  save.addEventListener("click", () => {
    const quote = value => {
      const safe = /^[=+@\t\r]|^-(?!\d|inf|$)/.test(value) ? "'" + value : value;
      return /[",\n]/.test(safe) ? '"' + safe.replace(/"/g, '""') + '"' : safe;
    };
    const lines = [heads, ...[...body.rows].map(row => [...row.cells])].map(cells => cells.map(cell => quote(cell.textContent)).join(","));
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([lines.join("\r\n") + "\r\n"], {type: "text/csv"}));
    link.download = "table.csv";
    link.click();
    URL.revokeObjectURL(link.href);
  });
  tools.append(save);
  table.closest(".scroll").before(tools);
}
