package admin

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"

	"github.com/mnemeproxy/mneme/codec"
)

// fault is the body of an error.
type fault struct {
	Error faultDetail `json:"error"`
}

type faultDetail struct {
	Kind    string `json:"kind"`
	Message string `json:"message"`
	Code    string `json:"code,omitempty"`
	Param   string `json:"param,omitempty"`
}

// Kinds returned by the store and this package, and their HTTP status. Others are 500.
var statusOf = map[codec.Kind]int{
	codec.KindAuthentication: http.StatusUnauthorized,
	codec.KindPermission:     http.StatusForbidden,
	codec.KindInvalidRequest: http.StatusBadRequest,
	codec.KindNotFound:       http.StatusNotFound,
	codec.KindConflict:       http.StatusConflict,
	codec.KindTooLarge:       http.StatusRequestEntityTooLarge,
	codec.KindStorage:        http.StatusInsufficientStorage,
	codec.KindOverloaded:     http.StatusServiceUnavailable,
	codec.KindUnsupported:    http.StatusNotImplemented,
}

func writeError(w http.ResponseWriter, log *slog.Logger, err error) {
	var known *codec.Error
	if !errors.As(err, &known) {
		known = codec.Errorf(codec.KindInternal, "the server could not do this; its log says why")
		known.Cause = err
	}
	status := statusOf[known.Kind]
	if status == 0 {
		status = http.StatusInternalServerError
	}
	if status >= http.StatusInternalServerError && status != http.StatusNotImplemented {
		log.Error("administration failed", "error", known, "cause", known.Cause)
	}
	writeJSON(w, status, fault{faultDetail{known.Kind.String(), known.Message, known.Code, known.Param}})
}

// readError returns the error that an error body was made from.
func readError(status int, body []byte) error {
	var f fault
	if err := json.Unmarshal(body, &f); err != nil || f.Error.Message == "" {
		return codec.Errorf(codec.KindInternal, "the server answered %d and did not say why", status)
	}
	err := codec.Errorf(codec.KindInternal, "%s", f.Error.Message)
	err.Code, err.Param = f.Error.Code, f.Error.Param
	for kind := codec.KindInternal; kind <= codec.KindUnsupported; kind++ {
		if kind.String() == f.Error.Kind {
			err.Kind = kind
		}
	}
	return err
}
