package codec

import "fmt"

// Tier is the service tier of an answer. Prices differ by it.
type Tier uint8

// The tiers, by the names that providers and price lists use.
const (
	TierStandard Tier = iota
	TierBatch
	TierFlex
	TierPriority
	TierFast // Messages: "speed": "fast"
)

var tierNames = [...]string{"standard", "batch", "flex", "priority", "fast"}

// String returns the name in records and price lists.
func (t Tier) String() string {
	if int(t) < len(tierNames) {
		return tierNames[t]
	}
	return fmt.Sprintf("tier(%d)", uint8(t))
}

// ReadTier reads a provider's name of a tier. Unknown names are the standard tier, as are "default" and "auto".
func ReadTier(name []byte) Tier {
	for i, known := range tierNames {
		if string(name) == known {
			return Tier(i)
		}
	}
	return TierStandard
}

// MarshalText writes the name.
func (t Tier) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText reads a name.
func (t *Tier) UnmarshalText(text []byte) error {
	*t = ReadTier(text)
	if *t == TierStandard && string(text) != tierNames[TierStandard] {
		return fmt.Errorf("unknown service tier %q", text)
	}
	return nil
}
