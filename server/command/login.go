package command

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/mnemeproxy/mneme/server/admin"
	"github.com/mnemeproxy/mneme/server/config"
)

// Login is "mneme login [URL]".
type Login struct {
	URL string `arg:"" optional:"" placeholder:"URL" help:"The server, such as https://mneme.example.com (default: http://127.0.0.1:7788)."`
}

// login is a saved login.
type login struct {
	URL string `json:"url"`
	Key string `json:"key"`
}

// Run saves the server and a key for later commands, once the server has accepted the key.
func (c *Login) Run(ctx context.Context, s *Env) error {
	file, err := loginFile()
	if err != nil {
		return err
	}
	kept := login{URL: strings.TrimRight(cmp.Or(c.URL, "http://"+config.DefaultListen), "/"), Key: strings.TrimSpace(os.Getenv(envKey))}
	if kept.Key == "" {
		if kept.Key, err = readSecret(ctx, s, "Service key for "+kept.URL+" (not shown): "); err != nil {
			return err
		}
	}
	client, err := admin.Remote(ctx, kept.URL, kept.Key)
	if err != nil {
		return err
	}
	if err := errors.Join(client.Close(), writeLogin(file, kept)); err != nil {
		return err
	}
	if unprotected(kept.URL) {
		fmt.Fprintf(s.Err, "mneme: %s is not encrypted: anyone on the network path can read the key\n", kept.URL)
	}
	holder := client.Holder()
	fmt.Fprintf(s.Out, "logged in to %s with key %s of account %s, which may %s\n", kept.URL, holder.Key, holder.Account,
		strings.ReplaceAll(holder.Scopes.String(), ",", ", "))
	return nil
}

// unprotected reports whether a URL crosses a network without TLS.
func unprotected(origin string) bool {
	u, err := url.Parse(origin)
	return err == nil && u.Scheme != "https" && !onThisMachine(origin)
}

// Logout is "mneme logout".
type Logout struct{}

// Run removes the login. The key stays valid.
func (*Logout) Run(s *Env) error {
	file, err := loginFile()
	if err != nil {
		return err
	}
	switch err := os.Remove(file); {
	case errors.Is(err, fs.ErrNotExist):
		fmt.Fprintln(s.Out, "there is no login")
		return nil
	case err != nil:
		return fmt.Errorf("the login was not removed: %w", err)
	}
	fmt.Fprintln(s.Out, "logged out; the key stays valid until it is revoked")
	return nil
}

// loginFile returns the path of the saved login.
func loginFile() (string, error) {
	home := config.Home()
	if home == "" {
		return "", fmt.Errorf("there is no home directory to keep a login in; set %s and %s instead", envURL, envKey)
	}
	return filepath.Join(home, "login.json"), nil
}

// readLogin returns the login; an empty one if there is none.
func readLogin() (kept login, err error) {
	if config.Home() == "" {
		return kept, nil
	}
	file, _ := loginFile()
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return kept, nil
	}
	if err != nil {
		return kept, fmt.Errorf("the login cannot be read: %w", err)
	}
	if err := json.Unmarshal(text, &kept); err != nil {
		return kept, fmt.Errorf("%s is not a valid login; create a new one with: mneme login URL", file)
	}
	return kept, nil
}

// writeLogin saves the login atomically, hidden from other users.
func writeLogin(file string, kept login) error {
	text, err := json.MarshalIndent(kept, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return fmt.Errorf("the login could not be saved: %w", err)
	}
	if err := writePrivately(file, append(text, '\n')); err != nil {
		return fmt.Errorf("the login could not be saved: %w", err)
	}
	return nil
}

// writePrivately atomically replaces a file by one that only this user may read.
func writePrivately(file string, text []byte) error {
	fresh, err := os.CreateTemp(filepath.Dir(file), filepath.Base(file)+".*") // mode 0600
	if err != nil {
		return err
	}
	_, err = fresh.Write(text)
	if err = errors.Join(err, fresh.Sync(), fresh.Close()); err == nil {
		err = os.Rename(fresh.Name(), file)
	}
	if err != nil {
		_ = os.Remove(fresh.Name())
	}
	return err
}
