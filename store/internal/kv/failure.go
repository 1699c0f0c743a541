package kv

import (
	"errors"

	"github.com/mnemeproxy/mneme/codec"
)

// StorageError returns the error of a failure as callers see it; its cause is for the log.
func StorageError(cause error, format string, args ...any) *codec.Error {
	err := codec.Errorf(codec.KindStorage, format, args...)
	err.Cause = cause
	return err
}

// AsStorageError returns a [codec.Error] unchanged and wraps any other error.
func AsStorageError(err error, format string, args ...any) error {
	if e := (*codec.Error)(nil); errors.As(err, &e) {
		return e
	}
	return StorageError(err, format, args...)
}
