package identity

import (
	"testing"

	"github.com/mnemeproxy/mneme/codec"
)

func TestRecallIsSwitchedOnOnlyForKeysThatMayRead(t *testing.T) {
	s := openHarness(t, options{})
	s.mustAccount(t, "acme")
	keys := s.keys.Keys()
	on := func(k *Key) { k.Recall = KeyRecallOn }

	_, _, err := keys.Create("acme", ScopeWrite, "", on)
	wantKind(t, err, codec.KindInvalidRequest)
	_, err = keys.CreateAll([]NewKey{{Account: "acme", Scopes: AllScopes, Set: on}, {Account: "acme", Scopes: AllScopes &^ ScopeRead, Set: on}})
	wantKind(t, err, codec.KindInvalidRequest)
	if made := keys.List("acme"); len(made) > 0 {
		t.Fatalf("created: %v", made)
	}

	_, writer, err := keys.Create("acme", ScopeWrite, "", func(k *Key) { k.Recall = KeyRecallOff })
	if err != nil {
		t.Fatal(err)
	}
	_, err = keys.Update(writer.ID, on)
	wantKind(t, err, codec.KindInvalidRequest)
	for _, k := range keys.List("acme") {
		if k.Recall != KeyRecallOff {
			t.Errorf("a refused update changed the key: %+v", k)
		}
	}

	_, reader, err := keys.Create("acme", ScopeWrite|ScopeRead, "", on)
	if err != nil {
		t.Fatal(err)
	}
	if _, fresh, err := keys.Rotate(reader.ID, 0); err != nil || fresh.Recall != KeyRecallOn {
		t.Errorf("rotated: %+v, %v", fresh, err)
	}
}

// A key may be older than the rule.
func TestAKeyWithRecallThatMayNotReadIsNotRotated(t *testing.T) {
	s := openHarness(t, options{})
	s.mustAccount(t, "acme")
	_, key := mustKey(t, s)
	old := s.keys.byID[key.ID]
	old.Recall = KeyRecallOn
	if err := s.keys.putKeys(old); err != nil {
		t.Fatal(err)
	}
	_, _, err := s.keys.Keys().Rotate(key.ID, 0)
	wantKind(t, err, codec.KindInvalidRequest)
	if _, err := s.keys.Keys().Update(key.ID, func(k *Key) { k.Recall = KeyRecallDefault }); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.keys.Keys().Rotate(key.ID, 0); err != nil {
		t.Errorf("without recall: %v", err)
	}
}
