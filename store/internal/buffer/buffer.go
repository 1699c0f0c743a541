// Package buffer pools the byte buffers on their way to the store and back.
package buffer

import (
	"sync"
	"unsafe"
)

// Buffers come in a few sizes, so that a short answer, or one that has only begun, does not hold the memory of a long one.
var (
	sizes = [...]int{1 << 10, 2 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20}
	pools [len(sizes)]sync.Pool
)

// Get returns an empty buffer with room for at least n bytes.
func Get(n int) []byte {
	for i, size := range sizes {
		if n > size {
			continue
		}
		if b, ok := pools[i].Get().(*byte); ok {
			return unsafe.Slice(b, size)[:0]
		}
		return make([]byte, 0, size)
	}
	return make([]byte, 0, n)
}

// SizeOf returns the capacity of a buffer that Get returns for n bytes.
func SizeOf(n int) int {
	for _, size := range sizes {
		if n <= size {
			return size
		}
	}
	return n
}

// Put returns an unused buffer to the pool. A buffer of a size that Get does not return is ignored.
func Put(b []byte) {
	for i, size := range sizes {
		if cap(b) == size {
			pools[i].Put(unsafe.SliceData(b)) // the pool's buffers have that length, and no slice is allocated
			return
		}
	}
}
