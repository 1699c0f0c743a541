package cache

import (
	"strings"
	"testing"
)

func TestWhatWasUsedLastStays(t *testing.T) {
	m := Map[string, string]{Most: 6, Size: func(v string) int { return len(v) }}
	put := func(keys string) {
		for _, key := range strings.Split(keys, "") {
			m.Put(key, key+key)
		}
	}
	put("abcd") // d begins a generation
	if v, ok := m.Get("a"); v != "aa" || !ok {
		t.Errorf("a is %q, %v", v, ok)
	}
	put("ef") // f begins another
	if m.Has("b") || m.Has("c") || !m.Has("a") {
		t.Errorf("it has %v and %v", m.young, m.older)
	}
}

func TestAReplacedEntryCountsOnce(t *testing.T) {
	m := Map[int, int]{Most: 2}
	m.Put(1, 1)
	for i := range 10 {
		m.Put(2, i)
	}
	if v, _ := m.Get(2); v != 9 || !m.Has(1) {
		t.Errorf("it has %v", m.young)
	}
}

func TestWhatIsDeletedIsGoneFromBothGenerations(t *testing.T) {
	for name, remove := range map[string]func(*Map[int, int]){
		"one by one":  func(m *Map[int, int]) { m.Delete(1); m.Delete(2) },
		"by a rule":   func(m *Map[int, int]) { m.DeleteFunc(func(key int) bool { return key < 3 }) },
		"all of them": func(m *Map[int, int]) { m.Clear() },
	} {
		t.Run(name, func(t *testing.T) {
			m := Map[int, int]{Most: 1}
			m.Put(1, 1)
			m.Put(2, 2)
			if m.Empty() {
				t.Fatal("nothing is there")
			}
			remove(&m)
			if m.Has(1) || m.Has(2) || !m.Empty() {
				t.Errorf("it has %v and %v", m.young, m.older)
			}
			if m.Put(3, 3); !m.Has(3) || m.size != 1 {
				t.Errorf("then it has %v, of %d", m.young, m.size)
			}
		})
	}
}
