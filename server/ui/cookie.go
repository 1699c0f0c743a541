package ui

import (
	"encoding/json"
	"net"
	"net/http"
	"time"
)

// cookieName contains the port, because all ports of a host share cookies.
func cookieName(r *http.Request) string {
	_, port, err := net.SplitHostPort(r.Host)
	if err != nil {
		return "mneme-ui"
	}
	return "mneme-ui-" + port
}

// setCookie seals a value in a cookie that scripts cannot read.
func (u *UI) setCookie(w http.ResponseWriter, r *http.Request, name string, value any, purpose string, until time.Time, site http.SameSite) {
	text, err := json.Marshal(value)
	must(err)
	http.SetCookie(w, &http.Cookie{
		Name: name, Value: u.Sealer.SealToken(string(text), purpose), Path: "/ui", Expires: until, HttpOnly: true, SameSite: site, Secure: u.Secure(r),
	})
}

// openCookie reads a sealed value; without a valid cookie value stays unchanged.
func (u *UI) openCookie(r *http.Request, name, purpose string, value any) bool {
	cookie, err := r.Cookie(name)
	if err != nil {
		return false
	}
	text, ok := u.Sealer.OpenToken(cookie.Value, purpose)
	return ok && json.Unmarshal([]byte(text), value) == nil
}

func dropCookie(w http.ResponseWriter, name string) {
	http.SetCookie(w, &http.Cookie{Name: name, Path: "/ui", MaxAge: -1, HttpOnly: true})
}
