# Time against bandwidth (-v xlabel, -v ylabel: something else), both on logarithmic axes, a line for
# each mode through the medians. Columns: mode, x, whatever, y.
BEGIN {
  if (xlabel == "") xlabel = "bandwidth of the Tuner's link, Mbit/s"
  if (ylabel == "") ylabel = "time of the job, s"
  FS = ","; W = 720; H = 440; L = 60; R = 110; T = 30; B = 50
  split("#2f6f9f #c8553d #4f8a54 #8a5fa8 #6b6b76", colour, " ")
}
NR > 1 {
  key = $1 SUBSEP $2
  n[key]++; v[key, n[key]] = $4
  if (!($1 in order)) { order[$1] = ++modes; name[modes] = $1 }
  if (!($2 in seen)) { seen[$2] = 1; rate[++rates] = $2 }
  if (!xmin || $2 + 0 < xmin) xmin = $2 + 0
  if ($2 + 0 > xmax) xmax = $2 + 0
  if (!ymin || $4 + 0 < ymin) ymin = $4 + 0
  if ($4 + 0 > ymax) ymax = $4 + 0
}
function median(key,   i, j, t, m) {
  m = n[key]
  for (i = 2; i <= m; ++i) for (j = i; j > 1 && v[key, j] + 0 < v[key, j - 1] + 0; --j) {
    t = v[key, j]; v[key, j] = v[key, j - 1]; v[key, j - 1] = t
  }
  return m % 2 ? v[key, (m + 1) / 2] : (v[key, m / 2] + v[key, m / 2 + 1]) / 2
}
function x(r) { return L + (W - L - R) * (xmax > xmin ? log(r / xmin) / log(xmax / xmin) : 0.5) }
function y(s) { return H - B - (H - T - B) * log(s / low) / log(high / low) }
END {
  for (low = 1; low > ymin; low /= 10); for (; low * 10 <= ymin; low *= 10);
  for (high = low; high < ymax; high *= 10);
  printf "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" font-family=\"system-ui, sans-serif\" font-size=\"13\">\n", W, H
  printf "<rect width=\"%d\" height=\"%d\" fill=\"white\"/>\n", W, H
  for (s = low; s <= high * 1.01; s *= 10) for (k = 1; k < 10; ++k) {
    if (s * k > high * 1.01) break
    printf "<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"%s\"/>\n", L, W - R, y(s * k), y(s * k), k == 1 ? "#ccccd4" : "#f0f0f4"
    if (k == 1 || k == 2 || k == 5) printf "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\" fill=\"#6b6b76\">%g</text>\n", L - 8, y(s * k) + 4, s * k
  }
  for (i = 1; i <= rates; ++i) if (i == 1 || x(rate[i]) - label_x > 24) {
    label_x = x(rate[i])
    printf "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\" fill=\"#6b6b76\">%g</text>\n", x(rate[i]), H - B + 20, rate[i]
  }
  printf "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">%s</text>\n", (L + W - R) / 2, H - 8, xlabel
  printf "<text x=\"%d\" y=\"18\">%s</text>\n", 8, ylabel
  for (m = 1; m <= modes; ++m) {
    d = ""; last = 0
    for (i = 1; i <= rates; ++i) {
      key = name[m] SUBSEP rate[i]
      if (!n[key]) continue
      s = median(key); d = d (d == "" ? "M" : "L") sprintf("%.1f %.1f", x(rate[i]), y(s)); last = i
      printf "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>\n", x(rate[i]), y(s), colour[m]
    }
    printf "<path d=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"2\"/>\n", d, colour[m]
    placed = y(median(name[m] SUBSEP rate[last])) + 4
    for (moved = 1; moved;) {
      moved = 0
      for (k = 1; k < m; ++k) if (placed - at[k] < 14 && at[k] - placed < 14) { placed = at[k] + 14; moved = 1 }
    }
    at[m] = placed
    printf "<text x=\"%d\" y=\"%.1f\" fill=\"%s\">%s</text>\n", W - R + 10, placed, colour[m], name[m]
  }
  print "</svg>"
}
