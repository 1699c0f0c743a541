package command

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"

	"github.com/mnemeproxy/mneme/server/admin"
	"github.com/mnemeproxy/mneme/server/agent"
	"github.com/mnemeproxy/mneme/server/config"
)

// Variables for the server's address and the caller's key.
const (
	envURL = "MNEME_URL"
	envKey = agent.EnvKey
)

// Target has the flags of commands that work on this machine's data or on a remote server. A choice of either in the
// flags wins, then in the environment, then in the login. The default is this machine.
type Target struct {
	StoreFlags `embed:""`
	URL        string `name:"url" placeholder:"URL" help:"Server to work on, with the key in $MNEME_KEY or of mneme login ($MNEME_URL; default: the data of this machine)."`
}

// elsewhere returns the remote server, "" for this machine, and the key for it, "" if there is none.
func (t Target) elsewhere() (origin, key string, err error) {
	saved, err := readLogin()
	if err != nil {
		return "", "", err
	}
	switch {
	case t.URL != "":
		origin = t.URL
	case t.Data != "" || t.Config != "":
	case os.Getenv(envURL) != "":
		origin = os.Getenv(envURL)
	case os.Getenv(config.EnvData) != "" || os.Getenv(config.EnvConfig) != "":
	default:
		origin = saved.URL
	}
	if origin = strings.TrimRight(origin, "/"); origin == "" {
		return "", "", nil
	}
	if key = strings.TrimSpace(os.Getenv(envKey)); key == "" && origin == saved.URL {
		key = saved.Key
	}
	return origin, key, nil
}

// remote returns a client of the remote server; nil for this machine.
func (t Target) remote(ctx context.Context) (*admin.Client, error) {
	origin, key, err := t.elsewhere()
	switch {
	case err != nil || origin == "":
		return nil, err
	case key != "":
		return admin.Remote(ctx, origin, key)
	case t.URL != "":
		return nil, fmt.Errorf("there is no key for %s; set %s, or keep one with: mneme login %s", origin, envKey, origin)
	}
	if !onThisMachine(origin) {
		return nil, fmt.Errorf("there is no key for %s, which %s names; set %s, or keep one with: mneme login %s", origin, envURL, envKey, origin)
	}
	return nil, nil //nolint:nilnil // MNEME_URL alone also says where agents of this machine find its server
}

// onThisMachine reports whether a URL leads to this machine.
func onThisMachine(origin string) bool {
	u, err := url.Parse(origin)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// manage runs do with a client of the target.
func (t Target) manage(ctx context.Context, create bool, do func(*admin.Client) error) error {
	client, err := t.remote(ctx)
	if err != nil {
		return err
	}
	if client != nil {
		return errors.Join(do(client), client.Close())
	}
	return t.missingKey(t.StoreFlags.manage(ctx, create, do))
}

// missingKey returns a clearer error if there is no data here, and the server elsewhere was not asked only for want of a
// key.
func (t Target) missingKey(err error) error {
	if missing := noDataError(""); !errors.As(err, &missing) {
		return err
	}
	origin, key, failed := t.elsewhere()
	if failed != nil || origin == "" || key != "" {
		return err
	}
	return fmt.Errorf("there is no key for %s, which %s names, and no data on this machine; set %s, or keep a key with: mneme login %s", origin, envURL, envKey, origin)
}

// manageIndex is manage for commands that need the whole index.
func (t Target) manageIndex(ctx context.Context, changeOver bool, do func(*admin.Client) error) error {
	client, err := t.remote(ctx)
	if err != nil {
		return err
	}
	if client != nil {
		return errors.Join(do(client), client.Close())
	}
	return t.missingKey(t.StoreFlags.manageIndex(ctx, changeOver, do))
}

// origin returns the URL at which agents and other clients on this machine find the server.
func (t Target) origin(ctx context.Context) (string, error) {
	origin, _, err := t.elsewhere()
	if err != nil || origin != "" {
		return origin, err
	}
	cfg, err := t.load()
	if err != nil {
		return "", err
	}
	if admin.Running(ctx, cfg.Data) {
		var origins []string
		err := t.StoreFlags.manage(ctx, mustExist, func(client *admin.Client) (err error) {
			origins, err = client.Origins(ctx)
			return err
		})
		if err == nil && len(origins) > 0 {
			return origins[0], nil
		}
	}
	if origin = configuredOrigin(&cfg); origin == "" {
		return "", errors.New("the configured address leaves the port open, and no server runs on this data; start one with: mneme serve, or say where it is with --url")
	}
	return origin, nil
}
