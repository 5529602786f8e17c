// What every HTML page shares: the frame, the style, tables and bars. Tested by tests/cli/html_test.cpp.
#include "cli/report/page/page.hpp"

#include <fmt/core.h>

namespace plan {
namespace {

constexpr std::string_view kStyle = R"(
:root{--ink:#1d2125;--paper:#fff;--soft:#f3f4f6;--line:#d5d8dc;--dim:#5c6670;--good:#1a7f37;--bad:#c0262d;
--c0:#4477aa;--c1:#2aa5c0;--c2:#aa3377;--c3:#d98a1f;--c4:#98a1a9;--c5:#228833;--c6:#cc5566;--c7:#7b6cc4;--c8:#b8960b;--c9:#e2e5e9}
@media (prefers-color-scheme:dark){:root{--ink:#e3e6e8;--paper:#16191c;--soft:#20252a;--line:#3b4248;--dim:#a0a9b1;--good:#5fce7c;--bad:#ff7b80;
--c0:#6699cc;--c1:#40b8d2;--c2:#cc66a3;--c3:#e0a043;--c4:#7c868f;--c5:#4aae5c;--c6:#e07a88;--c7:#9c8fe0;--c8:#cfae3a;--c9:#2b3137}}
*{box-sizing:border-box}
body{font:15px/1.45 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:64rem;margin:0 auto;padding:1rem}
h1{font-size:1.5rem;margin:.3rem 0}h2{font-size:1.15rem;margin:1.8rem 0 .5rem;border-bottom:1px solid var(--line);padding-bottom:.2rem}
p{margin:.4rem 0}.dim,small{color:var(--dim)}.good{color:var(--good)}.bad{color:var(--bad)}
code,pre{font-family:ui-monospace,monospace;font-size:.88em;overflow-wrap:anywhere;white-space:pre-wrap;margin:.3rem 0}
.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
td,th{padding:.2rem .5rem;text-align:right;vertical-align:top;border-bottom:1px solid var(--line)}
th{font-weight:600;color:var(--dim)}.t1 td:nth-child(-n+1),.t2 td:nth-child(-n+2),.t3 td:nth-child(-n+3),.t9 td,.t1 th:nth-child(-n+1),.t2 th:nth-child(-n+2),.t3 th:nth-child(-n+3),.t9 th{text-align:left}
svg{display:block;width:100%;overflow:visible}svg text{font-size:12px;fill:var(--dim)}
.f0{fill:var(--c0)}.f1{fill:var(--c1)}.f2{fill:var(--c2)}.f3{fill:var(--c3)}.f4{fill:var(--c4)}.f5{fill:var(--c5)}.f6{fill:var(--c6)}.f7{fill:var(--c7)}.f8{fill:var(--c8)}.f9{fill:var(--c9)}
.s0{stroke:var(--c0)}.s1{stroke:var(--c1)}.s2{stroke:var(--c2)}.s3{stroke:var(--c3)}.s4{stroke:var(--c4)}.s5{stroke:var(--c5)}.s6{stroke:var(--c6)}.s7{stroke:var(--c7)}.s8{stroke:var(--c8)}.s9{stroke:var(--c9)}
.axis{stroke:var(--line)}.mark{stroke:var(--bad);stroke-width:2}.join{stroke:var(--c0);stroke-width:1.5;fill:none}
.legend{display:flex;flex-wrap:wrap;gap:.1rem 1rem;font-size:.85rem;color:var(--dim);margin:.3rem 0}
.legend svg{display:inline-block;width:11px;height:11px;margin-right:.35rem}
details>summary{cursor:pointer;padding:.2rem 0;border-bottom:1px solid var(--line)}
details[open]>div{background:var(--soft);padding:.5rem .8rem;margin-bottom:.5rem}
details[open]>div table{font-size:.85rem}details[open]>div td{overflow-wrap:anywhere}
details[open]>div .t9 td:nth-child(2){white-space:nowrap}
.row>summary{display:grid;grid-template-columns:1rem 8rem 6.5rem 4rem 1fr;gap:.5rem;align-items:center;list-style:none}
.row>summary::-webkit-details-marker{display:none}.row>summary::before{content:"\25B8";color:var(--dim)}.row[open]>summary::before{content:"\25BE"}
.row>summary>:nth-child(n+2):not(svg):not(.words){text-align:right;font-variant-numeric:tabular-nums}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(11rem,1fr));gap:.8rem;margin:1rem 0}
.tile{background:var(--soft);padding:.6rem .8rem}.tile b{display:block;font-size:1.45rem;font-variant-numeric:tabular-nums}
.bars{margin:.3rem 0 .8rem;display:grid;grid-template-columns:max-content max-content 1fr;gap:.15rem .7rem;align-items:center;font-variant-numeric:tabular-nums}
.bars>:nth-child(3n+1),.bars>:nth-child(3n+2){text-align:right}
@media (min-width:601px){.t1 td:nth-child(n+2),.t2 td:nth-child(n+3),.t3 td:nth-child(n+4){white-space:nowrap}}
@media (max-width:600px){.row>summary>:nth-child(2){overflow-wrap:anywhere}body{font-size:14px;padding:.7rem}td,th{padding:.2rem .22rem}table{font-size:.78rem}
.t2 td:nth-child(-n+2),.t9 td{overflow-wrap:anywhere}.t2 td:first-child,.t9 td:first-child{min-width:6rem}
.t3 thead{display:none}.t3 tr{display:flex;flex-wrap:wrap;gap:0 .5rem;border-bottom:1px solid var(--line);padding:.2rem 0}.t3 td{border:0}
.t3 td:nth-child(2){flex:1 0 75%;font-weight:600}.t3 td:nth-child(3){flex:1 0 100%;order:1}
.t3 td:nth-child(6)::before{content:"90 % of draws "}.t3 td:last-child::after{content:" GiB"}
.row>summary{grid-template-columns:1rem 6rem 5.2rem 2.8rem 1fr;gap:.25rem}.tile b{font-size:1.2rem}.tiles{grid-template-columns:repeat(auto-fit,minmax(9rem,1fr));gap:.5rem}}
@media print{body{max-width:none;padding:0;font-size:11px}section,details,table{break-inside:avoid}*{-webkit-print-color-adjust:exact}}
)";

}  // namespace

std::string escape_html(std::string_view text) {
  std::string out;
  for (const char c : text) switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      default: out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
    }
  return out;
}

std::string html_page(std::string_view title, std::string_view style, std::string_view body) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{}</title>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n<style>{}{}</style></head>\n"
      "<body>\n{}</body></html>\n",
      escape_html(title), kStyle, style, body);
}

std::string html_section(std::string_view anchor, std::string_view title, std::string_view body) {
  if (body.empty()) return "";
  return fmt::format("<section id=\"{}\"><h2>{}</h2>\n{}</section>\n", anchor, escape_html(title), body);
}

std::string html_lines(const std::vector<std::string>& lines, std::string_view tone) {
  std::string out;
  for (const std::string& line : lines) out += fmt::format("<p class=\"{}\">{}</p>\n", tone, escape_html(line));
  return out;
}

std::string html_table(const HtmlTable& table) {
  if (table.rows.empty()) return "";
  std::string out = fmt::format("<div class=\"scroll\"><table class=\"t{}\">\n<thead><tr>", table.text_columns);
  for (const std::string& cell : table.head) out += fmt::format("<th scope=\"col\">{}</th>", cell);
  out += "</tr></thead>\n<tbody>\n";
  for (const std::vector<std::string>& row : table.rows) {
    out += "<tr>";
    for (const std::string& cell : row) out += fmt::format("<td>{}</td>", cell);
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

std::string svg_bar(const std::vector<BarPart>& parts, double mark) {
  std::string out = "<svg height=\"16\">";
  double at = 0;
  for (const BarPart& part : parts) {
    if (part.share > 0)
      out += fmt::format("<rect class=\"f{}\" x=\"{:.2f}%\" width=\"{:.2f}%\" height=\"16\">{}</rect>", part.colour,
                         100 * at, 100 * part.share,
                         part.title.empty() ? "" : fmt::format("<title>{}</title>", escape_html(part.title)));
    at += part.share;
  }
  if (mark >= 0 && mark <= 1)
    out += fmt::format("<line class=\"mark\" x1=\"{0:.2f}%\" x2=\"{0:.2f}%\" y1=\"-2\" y2=\"18\"/>", 100 * mark);
  return out + "</svg>";
}

int category_colour(std::string_view name) {
  constexpr std::pair<std::string_view, int> kColours[] = {
      {"weights", 0},    {"gradients", 1},  {"optimizer", 2},  {"activations", 3}, {"other", 4},
      {"compute", 7},    {"recompute", 8},  {"tp exposed", 6}, {"cp exposed", 5},  {"ep exposed", 3},
      {"pp exposed", 0}, {"dp exposed", 1}, {"bubble", 9},     {"stragglers", 4},
  };
  for (const auto& [known, colour] : kColours)
    if (known == name) return colour;
  return 4;
}

std::string html_legend(const std::vector<std::pair<int, std::string>>& entries) {
  std::string out = "<div class=\"legend\">";
  for (const auto& [colour, name] : entries)
    out += fmt::format("<span><svg><rect class=\"f{}\" width=\"11\" height=\"11\"/></svg>{}</span>", colour,
                       escape_html(name));
  return out + "</div>\n";
}

}  // namespace plan
