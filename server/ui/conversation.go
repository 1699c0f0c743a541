package ui

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/server/api"
	"github.com/mnemeproxy/mneme/server/history"
	"github.com/mnemeproxy/mneme/server/memory"
	"github.com/mnemeproxy/mneme/server/transcript"
	"github.com/mnemeproxy/mneme/store"
)

// A session leaves the window as a page to share or a first message for another agent, which every reader gets, or goes on
// in the history of an agent on this machine, which takes the same rights as an import.

// readable reads the session of a request from a caller with scope read.
func (u *UI) readable(r *http.Request) (account string, m api.Session, err error) {
	_, identity, err := u.identify(r)
	if err != nil {
		return "", m, err
	}
	if err = requireScope(&identity, store.ScopeRead); err != nil {
		return "", m, err
	}
	m, err = memory.ReadSession(r.Context(), u.Archive, identity.Account, r.PathValue("id"))
	return identity.Account, m, err
}

// sharePage answers with a session as one page that loads nothing.
func (u *UI) sharePage(w http.ResponseWriter, r *http.Request) {
	account, m, err := u.readable(r)
	if err != nil {
		u.fail(w, err)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Disposition", `attachment; filename="session.html"`)
	h.Set("Cache-Control", "no-store")
	sent := &counting{ResponseWriter: w}
	out, err := transcript.NewWriter("html", sent)
	if err == nil {
		var written bool
		if written, err = out.Session(history.Conversation(&m), transcript.TurnsIn(r.Context(), u.Archive, account, m.ID)); err == nil && !written {
			err = codec.Errorf(codec.KindNotFound, "This session has no words to share.")
		}
	}
	switch {
	case err == nil:
		_ = out.Flush() // fails only when the caller has left
	case sent.bytes == 0:
		h.Del("Content-Disposition")
		u.fail(w, err)
	default:
		u.Log.Error("a page to share ended early", "session", m.ID, "error", err)
		panic(http.ErrAbortHandler) // half a page must not look complete
	}
}

// counting counts the bytes of an answer.
type counting struct {
	http.ResponseWriter
	bytes int
}

func (c *counting) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p)
	c.bytes += n
	return n, err
}

// firstMessage answers with a message that another agent can begin with.
func (u *UI) firstMessage(w http.ResponseWriter, r *http.Request) {
	_, m, err := u.readable(r)
	if err != nil {
		u.fail(w, err)
		return
	}
	writeJSON(w, http.StatusOK, map[string]string{"message": history.FirstMessage(&m)})
}

// HandedOver is where a session goes on.
type HandedOver struct {
	history.Handed
	Command string `json:"command"` // that continues it
}

// handOver writes a session into the history of an agent on this machine.
func (u *UI) handOver(w http.ResponseWriter, r *http.Request) {
	identity, err := u.importer(r)
	if err != nil {
		u.fail(w, err)
		return
	}
	var asked struct {
		To string `json:"to"`
	}
	if err := readJSON(w, r, &asked); err != nil {
		u.fail(w, err)
		return
	}
	var handed HandedOver
	entry := store.AuditEntry{Actor: identity.KeyID, Action: "session.handoff", Account: identity.Account, Subject: r.PathValue("id")}
	err = u.Archive.Audited(entry, func(*store.AuditEntry) error {
		handed.Handed, err = u.hand(r.Context(), identity.Account, r.PathValue("id"), asked.To)
		return err
	})
	if err != nil {
		u.fail(w, err)
		return
	}
	handed.Command = handed.Handed.Command()
	writeJSON(w, http.StatusOK, handed)
}

func (u *UI) hand(ctx context.Context, account, session, to string) (handed history.Handed, err error) {
	m, err := memory.ReadSession(ctx, u.Archive, account, session)
	if err != nil {
		return handed, err
	}
	h, err := history.NewHandoff(&m, transcript.TurnsIn(ctx, u.Archive, account, session))
	if err != nil {
		return handed, err
	}
	search := u.search()
	if search.Temp, err = os.MkdirTemp("", "mneme-handoff-"); err != nil {
		return handed, err
	}
	defer func() { _ = os.RemoveAll(search.Temp) }()
	handed, err = history.HandTo(ctx, to, search, h)
	if err != nil {
		return handed, codec.Invalid("to", "%s", sentence(err))
	}
	return handed, nil
}

// sentence returns an error as a person reads it.
func sentence(err error) string {
	text := err.Error()
	return fmt.Sprintf("%s%s.", strings.ToUpper(text[:1]), strings.TrimRight(text[1:], "."))
}
