// The doctor's verdict on the input: a sentence on the error at hidden points, and a table of checks.

const MARKS = { ok: "ok", suspicious: "suspicious", "cannot tell": "cannot tell" };
const make = (tag, content, name = "") => Object.assign(document.createElement(tag), { textContent: content, className: name });
const percent = (share) => (share === null ? "–" : `${(100 * share).toPrecision(3)} %`);

function headline({ errors, findings, model }) {
  const found = findings.filter((f) => f.verdict === "suspicious").length;
  const first = found ? `${found} of ${findings.length} checks found something suspicious.` : "Nothing suspicious was found.";
  if (!errors) return `${first} There are too few points to hide some of them and measure the error.`;
  const error = `At ${errors.count} hidden points the error of ${model} is ${percent(errors.network)} of the depth, that of linear interpolation ${percent(errors.linear)}.`;
  return `${first} ${error}${errors.network_is_worse ? " On this data linear interpolation is better." : ""}`;
}

/** Fill `box` with a verdict as the server sends it. */
export function showVerdict(box, verdict) {
  const table = document.createElement("table");
  const order = ["suspicious", "cannot tell", "ok"];
  for (const finding of [...verdict.findings].sort((a, b) => order.indexOf(a.verdict) - order.indexOf(b.verdict))) {
    const row = table.insertRow();
    row.className = finding.verdict.replace(" ", "-");
    row.append(make("th", finding.check), make("td", MARKS[finding.verdict], "mark"), make("td", [finding.evidence, finding.advice].filter(Boolean).join(" ")));
    row.firstChild.scope = "row";
  }
  box.replaceChildren(make("p", headline(verdict)), table);
}
