//go:build !race

package racing

// On tells whether the race detector is on.
const On = false
