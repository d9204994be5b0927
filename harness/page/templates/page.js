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

// The attention explorer: a token looks, the others light up by weight.
const source = document.getElementById("explorer-data");
if (source) {
  const data = JSON.parse(source.textContent), find = id => document.getElementById(id);
  const tools = find("explorer-tools"), line = find("explorer-tokens"), said = find("explorer-said");
  const body = find("explorer-rows").tBodies[0];
  const chosen = {model: data[0].model, task: data[0].task, seed: data[0].seed, example: data[0].example};
  let pattern = data[0], head = 0, at = 0;
  const selects = {};
  const number = (value, digits) => value.toFixed(digits);

  function fill(select, values, value) {
    select.replaceChildren(...values.map(each => new Option(each, each, false, String(each) === String(value))));
    select.disabled = values.length < 2;
  }
  function choose(keys) {
    let left = data;
    for (const key of Object.keys(chosen)) {
      const values = [...new Set(left.map(each => each[key]))];
      if (!values.some(value => String(value) === String(chosen[key]))) chosen[key] = values[0];
      fill(selects[key], values, chosen[key]);
      left = left.filter(each => String(each[key]) === String(chosen[key]));
    }
    pattern = left[0];
    head = pattern.first;
    at = pattern.query === null ? pattern.tokens.length - 1 : pattern.query;
    fill(selects.head, pattern.heads, pattern.heads[head]);
    show();
  }
  for (const key of [...Object.keys(chosen), "head"]) {
    const label = document.createElement("label"), select = document.createElement("select");
    label.append(key + " ", select);
    tools.append(label);
    selects[key] = select;
    select.addEventListener("change", () => {
      if (key === "head") { head = select.selectedIndex; show(); } else { chosen[key] = select.value; choose(); }
    });
  }
  function show() {
    const row = pattern.weights[head][at] || [], top = Math.max(...row, 0);
    line.replaceChildren(...pattern.tokens.map((token, index) => {
      const option = document.createElement("span"), weight = row[index] || 0;
      option.textContent = token;
      option.id = "explorer-token-" + index;
      option.setAttribute("role", "option");
      option.setAttribute("aria-selected", index === at);
      option.className = [index === at ? "at" : "", index === pattern.cue ? "cue" : "", index === pattern.query ? "query" : ""].join(" ");
      option.style.setProperty("--weight", weight);
      if (weight >= 0.01) { const small = document.createElement("small"); small.textContent = number(weight, 2); option.append(small); }
      option.addEventListener("click", () => { at = index; show(); line.focus(); });
      return option;
    }));
    line.setAttribute("aria-activedescendant", "explorer-token-" + at);
    const order = row.map((weight, index) => [weight, index]).sort((a, b) => b[0] - a[0]);
    const strongest = order.length ? pattern.tokens[order[0][1]] + " (" + number(order[0][0], 2) + ")" : "nothing";
    const effect = pattern.effects[pattern.heads[head]];
    said.textContent = "Token " + (at + 1) + ", " + pattern.tokens[at] + ", in " + pattern.heads[head] + ", looks most at " + strongest + "." +
      (effect === undefined ? "" : " Without this head's look at the cue the score falls by " + number(effect, 3) + ".");
    body.replaceChildren(...pattern.tokens.map((token, index) => {
      const line = document.createElement("tr"), masked = index >= row.length, weight = row[index] || 0;
      const score = masked ? "masked" : weight > 0 ? number(Math.log(weight / top), 2) : "below -9";
      for (const text of [(index + 1) + " " + token, masked ? "" : number(weight, 4), score]) {
        const cell = document.createElement("td");
        cell.textContent = text;
        line.append(cell);
      }
      line.cells[1].style.setProperty("--weight", weight);
      line.cells[1].className = "bar";
      return line;
    }));
  }
  line.addEventListener("keydown", event => {
    const steps = {ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, Home: -Infinity, End: Infinity}[event.key];
    if (steps === undefined) return;
    event.preventDefault();
    at = Math.min(Math.max(at + steps, 0), pattern.tokens.length - 1);
    show();
  });
  choose();
  find("explorer").hidden = false;
}
