// Changes of a photo's colours and of where its pixels lie, as PIL and torchvision's functions on
// PIL images have them, to the bit. Pure functions; any thread.
#pragma once

#include "ndp/photos/image.h"

namespace ndtrain::ndp {

// PIL's ImageEnhance: 1 changes nothing, 0 gives black, the mean grey, the photo's own greys, and a
// smoothed photo; above 1 the difference to that grows. A factor is at least 0.
Image with_brightness(const Image& image, double factor);
Image with_contrast(const Image& image, double factor);
Image with_saturation(const Image& image, double factor);
Image with_sharpness(const Image& image, double factor);
// torchvision's adjust_hue: turned by `part` of the circle of hues, from -0.5 to 0.5.
Image with_hue(const Image& image, double part);

// PIL's ImageOps.
Image posterized(const Image& image, int bits);         // of each value so many stay, 0 to 8
Image solarized(const Image& image, double threshold);  // values from it on are inverted
Image autocontrasted(const Image& image);  // of each channel the least is 0, the most 255
Image equalized(const Image& image);       // of each channel the histogram is flat

// Where each pixel comes from: (a x + b y + c, d x + e y + f) of the place (x, y), both of pixels'
// centres; the nearest one, and black from outside.
struct AffineMap {
  double a = 1, b = 0, c = 0, d = 0, e = 1, f = 0;
};
Image transformed(const Image& image, const AffineMap& from);
Image rotated(const Image& image, double degrees);  // about the centre, counter-clockwise

}  // namespace ndtrain::ndp
