package identity

import "github.com/mnemeproxy/mneme/codec"

// KeyRecall decides whether requests of a key get recalled text.
type KeyRecall string

// Settings.
const (
	KeyRecallDefault KeyRecall = ""    // the server's configuration
	KeyRecallOn      KeyRecall = "on"  // without asking for it
	KeyRecallOff     KeyRecall = "off" // never, even if they ask
)

// ParseKeyRecall reads "on", "off" and "default".
func ParseKeyRecall(text string) (KeyRecall, error) {
	switch r := KeyRecall(text); r {
	case KeyRecallDefault, KeyRecallOn, KeyRecallOff:
		return r, nil
	case "default":
		return KeyRecallDefault, nil
	}
	return "", codec.Invalid("recall", "recall is on, off or default, not %q", text)
}

// UnmarshalText reads what [ParseKeyRecall] does.
func (r *KeyRecall) UnmarshalText(text []byte) (err error) {
	*r, err = ParseKeyRecall(string(text))
	return err
}
