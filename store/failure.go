package store

import (
	"errors"

	"github.com/mnemeproxy/mneme/codec"
)

// errStorage is what callers are told of a failure; its cause is for the log.
func errStorage(cause error, format string, args ...any) *codec.Error {
	err := codec.Errorf(codec.KindStorage, format, args...)
	err.Cause = cause
	return err
}

// asStorageError passes a [codec.Error] on and wraps anything else.
func asStorageError(err error, format string, args ...any) error {
	if e := (*codec.Error)(nil); errors.As(err, &e) {
		return e
	}
	return errStorage(err, format, args...)
}
