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

// parseKeyRecall reads "on", "off" and "default".
func parseKeyRecall(text string) (KeyRecall, error) {
	switch r := KeyRecall(text); r {
	case KeyRecallDefault, KeyRecallOn, KeyRecallOff:
		return r, nil
	case "default":
		return KeyRecallDefault, nil
	}
	return "", codec.Invalid("recall", "recall is on, off or default, not %q", text)
}

// UnmarshalText reads "on", "off" and "default".
func (r *KeyRecall) UnmarshalText(text []byte) (err error) {
	*r, err = parseKeyRecall(string(text))
	return err
}

// checkRecall returns an error if the key is to get text from a memory that it may not read.
func (k *Key) checkRecall() error {
	if k.Recall != KeyRecallOn || k.Scopes.Has(ScopeRead) {
		return nil
	}
	return codec.Invalid("recall", "recall quotes the memory, so it needs a key with the scope %s, and this one has %s: add the scope to a new key, or set recall to default", ScopeRead, k.Scopes)
}
