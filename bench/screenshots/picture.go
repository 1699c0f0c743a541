package main

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"image"
	"image/color"
	"image/png"
	"slices"
)

// smaller reduces a picture to its 256 most frequent colors, which more than halves its size: pages have few colors,
// and the shades of antialiased letters between them.
func smaller(picture []byte) ([]byte, error) {
	decoded, err := png.Decode(bytes.NewReader(picture))
	if err != nil {
		return nil, err
	}
	area := decoded.Bounds()
	seen := make(map[color.RGBA]int)
	at := func(x, y int) color.RGBA { return color.RGBAModel.Convert(decoded.At(x, y)).(color.RGBA) }
	for y := range area.Dy() {
		for x := range area.Dx() {
			seen[at(x, y)]++
		}
	}
	colors := make([]color.RGBA, 0, len(seen))
	for c := range seen {
		colors = append(colors, c)
	}
	slices.SortFunc(colors, func(a, b color.RGBA) int {
		return cmp.Or(seen[b]-seen[a], int(a.R)-int(b.R), int(a.G)-int(b.G), int(a.B)-int(b.B))
	})
	const most = 256
	palette := make(color.Palette, min(len(colors), most))
	for i := range palette {
		palette[i] = colors[i]
	}
	nearest := make(map[color.RGBA]uint8, len(colors))
	for _, c := range colors {
		nearest[c] = uint8(palette.Index(c))
	}
	out := image.NewPaletted(area, palette)
	for y := range area.Dy() {
		for x := range area.Dx() {
			out.SetColorIndex(x, y, nearest[at(x, y)])
		}
	}
	var small bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	err = encoder.Encode(&small, out)
	return small.Bytes(), err
}

// drawn returns a bar chart as a data URL.
func drawn(bars []int) (string, error) {
	const wide, tall, gap = 34, 160, 8
	paper := image.NewPaletted(image.Rect(0, 0, len(bars)*wide+gap, tall+2*gap), color.Palette{color.White, color.RGBA{58, 98, 216, 255}})
	for i, bar := range bars {
		for x := i*wide + gap; x < (i+1)*wide; x++ {
			for y := tall + gap - bar*tall/slices.Max(bars); y < tall+gap; y++ {
				paper.SetColorIndex(x, y, 1)
			}
		}
	}
	var out bytes.Buffer
	err := png.Encode(&out, paper)
	return "data:image/png;base64," + base64.StdEncoding.EncodeToString(out.Bytes()), err
}
