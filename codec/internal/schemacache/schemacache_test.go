package schemacache

import (
	"bytes"
	"strconv"
	"sync"
	"testing"
)

func TestASchemaIsPreparedOnceUnlessItIsHuge(t *testing.T) {
	var prepared int
	c := New(func(schema []byte) (int, int) { prepared++; return len(schema), len(schema) })
	small, huge := []byte("{}"), bytes.Repeat([]byte{' '}, mostBytesOfOne)
	for range 3 {
		if got := c.Get(bytes.Clone(small)); got != len(small) {
			t.Errorf("of a small schema %d is made", got)
		}
	}
	if prepared != 1 {
		t.Errorf("a small schema was prepared %d times", prepared)
	}
	c.Get(huge)
	c.Get(huge)
	if prepared != 3 {
		t.Errorf("of two times a huge schema %d were prepared", prepared-1)
	}
}

func TestACacheAskedAtTheSameTimeStaysWithinItsMemory(t *testing.T) {
	c := New(func([]byte) (struct{}, int) { return struct{}{}, mostBytesOfOne / 2 })
	var callers sync.WaitGroup
	for of := range 4 {
		callers.Go(func() {
			for n := range 200 {
				c.Get([]byte(strconv.Itoa(of*1000 + n)))
			}
		})
	}
	callers.Wait()
	if c.size > mostBytes || len(c.made) == 0 || len(c.made) > 2*mostBytes/mostBytesOfOne {
		t.Errorf("it holds %d bytes of %d schemas", c.size, len(c.made))
	}
}
