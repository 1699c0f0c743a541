// Package cache keeps in memory what was used last.
package cache

import (
	"maps"
	"sync"
)

// Map holds the entries that were used last, in two generations: when the younger is full, the older is dropped. Its
// methods may be called from any goroutine.
type Map[K comparable, V any] struct {
	Most int         // size of a generation
	Size func(V) int // of an entry; nil: 1

	mu           sync.RWMutex
	young, older map[K]V
	size         int // of young
}

// Get returns the value of a key, if the map has it.
func (m *Map[K, V]) Get(key K) (value V, ok bool) {
	m.mu.RLock()
	value, young := m.young[key]
	older := false
	if !young {
		value, older = m.older[key]
	}
	m.mu.RUnlock()
	if older {
		m.mu.Lock()
		defer m.mu.Unlock()
		if newer, there := m.young[key]; there {
			return newer, true
		}
		if _, there := m.older[key]; there { // not deleted in the meantime
			m.put(key, value)
		}
	}
	return value, young || older
}

// Has reports whether the map has a key.
func (m *Map[K, V]) Has(key K) bool {
	_, ok := m.Get(key)
	return ok
}

// Put adds or replaces an entry.
func (m *Map[K, V]) Put(key K, value V) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.put(key, value)
}

func (m *Map[K, V]) put(key K, value V) {
	m.remove(key)
	size := m.sizeOf(value)
	if m.size+size > m.Most || m.young == nil {
		m.older, m.young, m.size = m.young, make(map[K]V), 0
	}
	m.young[key] = value
	m.size += size
}

func (m *Map[K, V]) sizeOf(value V) int {
	if m.Size == nil {
		return 1
	}
	return m.Size(value)
}

// remove removes an entry from the younger generation.
func (m *Map[K, V]) remove(key K) {
	if value, there := m.young[key]; there {
		m.size -= m.sizeOf(value)
		delete(m.young, key)
	}
}

// Delete removes an entry.
func (m *Map[K, V]) Delete(key K) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.remove(key)
	delete(m.older, key)
}

// DeleteFunc removes the entries for whose keys del returns true.
func (m *Map[K, V]) DeleteFunc(del func(K) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key := range m.young {
		if del(key) {
			m.remove(key)
		}
	}
	maps.DeleteFunc(m.older, func(key K, _ V) bool { return del(key) })
}

// Clear removes all entries.
func (m *Map[K, V]) Clear() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.young, m.older, m.size = nil, nil, 0
}

// Empty reports whether there is no entry.
func (m *Map[K, V]) Empty() bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return len(m.young) == 0 && len(m.older) == 0
}
