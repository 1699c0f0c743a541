package store

import (
	"sync"
	"unsafe"
)

// responsePart is how much of an answer is held in memory before it goes to the store.
const responsePart = 256 << 10

// Buffers come in a few sizes, so that a short answer, or one that has only begun, does not hold the memory of a long one.
var (
	bufferSizes = [...]int{1 << 10, 4 << 10, 16 << 10, 64 << 10, responsePart, 1 << 20}
	bufferPools [len(bufferSizes)]sync.Pool
)

// getBuffer gives an empty buffer with room for at least n bytes.
func getBuffer(n int) []byte {
	for i, size := range bufferSizes {
		if n > size {
			continue
		}
		if b, ok := bufferPools[i].Get().(*byte); ok {
			return unsafe.Slice(b, size)[:0]
		}
		return make([]byte, 0, size)
	}
	return make([]byte, 0, n)
}

// bufferSize is the capacity of a buffer that getBuffer gives for n bytes.
func bufferSize(n int) int {
	for _, size := range bufferSizes {
		if n <= size {
			return size
		}
	}
	return n
}

func putBuffer(b []byte) {
	for i, size := range bufferSizes {
		if cap(b) == size {
			bufferPools[i].Put(unsafe.SliceData(b)) // as long as the pool's buffers are, and no slice to allocate
			return
		}
	}
}
