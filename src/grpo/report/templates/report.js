"use strict";
document.querySelectorAll("table.sortable").forEach((table) => {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") !== "descending" && (column > 0 || head.hasAttribute("aria-sort"));
      heads.forEach((each) => each.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const key = (row) => row.cells[column].dataset.value ?? "";
      const rows = [...table.tBodies[0].rows].sort((one, other) => {
        const [a, b] = [key(one), key(other)];
        if (a === "" || b === "") return (a === "") - (b === ""); // what is missing stands last, whatever the direction
        const order = isNaN(a) || isNaN(b) ? a.localeCompare(b, undefined, { numeric: true }) : a - b;
        return down ? -order : order;
      });
      table.tBodies[0].append(...rows);
    });
  });
});
document.querySelectorAll("[role=tablist]").forEach((list) => {
  const tabs = [...list.querySelectorAll("[role=tab]")];
  const choose = (chosen) => tabs.forEach((tab) => {
    tab.setAttribute("aria-selected", tab === chosen);
    tab.tabIndex = tab === chosen ? 0 : -1;
    document.getElementById(tab.getAttribute("aria-controls")).hidden = tab !== chosen;
  });
  tabs.forEach((tab, index) => {
    tab.addEventListener("click", () => choose(tab));
    tab.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      const next = tabs[(index + step + tabs.length) % tabs.length];
      choose(next);
      next.focus();
    });
  });
});
document.querySelectorAll("button.copy").forEach((button) => button.addEventListener("click", () => {
  const text = document.getElementById(button.dataset.copies);
  const range = document.createRange(), selection = getSelection();
  range.selectNodeContents(text);
  selection.removeAllRanges();
  selection.addRange(range);
  const said = button.textContent;
  button.textContent = document.execCommand("copy") ? "copied" : "press Ctrl-C"; // works on file://, where navigator.clipboard does not
  setTimeout(() => { button.textContent = said; }, 1600);
}));
