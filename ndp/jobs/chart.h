// Curves over epochs as inline SVG, and the page that they are on, which loads nothing.
#pragma once

#include <string>
#include <vector>

namespace ndtrain::ndp {

struct EpochCurve {
  std::string name, colour;  // of SVG: "#c8553d"
  std::vector<double> y;     // of each epoch; NaN where there is none
};

// A chart with its axes: x counts epochs from 1. "" without any y. Deterministic.
std::string epoch_chart(const std::string& title, const std::vector<EpochCurve>& curves);

// From <!doctype> to the heading.
std::string page_head(const std::string& title);

}  // namespace ndtrain::ndp
