package kv

import (
	"errors"

	"github.com/mnemeproxy/mneme/codec"
)

// StorageError is what callers are told of a failure; its cause is for the log.
func StorageError(cause error, format string, args ...any) *codec.Error {
	err := codec.Errorf(codec.KindStorage, format, args...)
	err.Cause = cause
	return err
}

// AsStorageError passes a [codec.Error] on and wraps anything else.
func AsStorageError(err error, format string, args ...any) error {
	if e := (*codec.Error)(nil); errors.As(err, &e) {
		return e
	}
	return StorageError(err, format, args...)
}
