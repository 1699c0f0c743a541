package bench

import (
	"context"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// The report is looked at as a person would: a browser opens the file, and the plot is there, in mneme's color and in
// that of the others.
func TestAReportOpensInABrowser(t *testing.T) {
	t.Parallel()
	browser := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			browser = path
			break
		}
	}
	if browser == "" {
		t.Skip("no Chromium is installed")
	}
	dir := t.TempDir()
	if err := reportOf(1.5, 1.6, 1.4).write(dir); err != nil {
		t.Fatal(err)
	}
	picture := filepath.Join(dir, "report.png")
	profile, err := os.MkdirTemp("", "mneme-browser-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(profile) }) // processes of the browser may outlive it for a moment, and write there
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--user-data-dir="+profile,
		"--window-size=1000,700", "--screenshot="+picture, "file://"+filepath.Join(dir, "report.html")).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	seen := colors(t, picture)
	for name, want := range map[string]uint32{"bars of mneme": 0x2a6fb0, "bars of the floors": 0x9fb3c8, "letters": 0x1b1f24} {
		if seen[want] < 20 {
			t.Errorf("no %s: the page has %d pixels of #%06x", name, seen[want], want)
		}
	}
}

// colors counts a picture's pixels by color, red, green and blue in one number.
func colors(t *testing.T, file string) map[uint32]int {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	picture, err := png.Decode(f)
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[uint32]int)
	for y := range picture.Bounds().Dy() {
		for x := range picture.Bounds().Dx() {
			r, g, b, _ := picture.At(x, y).RGBA()
			seen[r>>8<<16|g>>8<<8|b>>8]++
		}
	}
	return seen
}
