package command

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"

	"github.com/mnemeproxy/mneme/server/admin"
)

// UI is "mneme ui".
type UI struct {
	Target   `embed:""`
	Account  string `default:"default" placeholder:"NAME" help:"The account to show (default: ${default})."`
	Operator bool   `help:"Show every account: what each spends, and with a choice of the one that is shown."`
	Print    bool   `help:"Print the link, which works once, within a minute, and open nothing."`
}

// Run opens the page of the running server in a browser, signed in.
func (c *UI) Run(ctx context.Context, s *Env) error {
	elsewhere, _, err := c.elsewhere()
	if err != nil {
		return err
	}
	return c.manage(ctx, mustExist, func(client *admin.Client) error {
		origins, err := client.Origins(ctx)
		if err != nil && elsewhere != "" { // the key may not sign anybody in; the page asks who comes
			return c.open(ctx, s, elsewhere+"/ui/", elsewhere+"/ui/")
		}
		if err != nil {
			return err
		}
		if len(origins) == 0 {
			return errors.New("no server is running here that a browser can reach; start one with: mneme serve")
		}
		code, err := client.Invite(ctx, c.Account, c.Operator)
		if err != nil && elsewhere != "" {
			return c.open(ctx, s, elsewhere+"/ui/", elsewhere+"/ui/")
		}
		if err != nil {
			return err
		}
		return c.open(ctx, s, origins[0]+"/ui/#code="+code, origins[0]+"/ui/")
	})
}

// open opens a link, or shows it; page is what it leads to.
func (c *UI) open(ctx context.Context, s *Env, link, page string) error {
	if !c.Print && openBrowser(ctx, link) == nil {
		fmt.Fprintln(s.Err, "opened "+page+" in the browser")
		return nil
	}
	if !c.Print {
		fmt.Fprintln(s.Err, "no browser could be opened; open this link within a minute:")
	}
	fmt.Fprintln(s.Out, link)
	return nil
}

// openBrowser opens a link with the system's program for links.
func openBrowser(ctx context.Context, link string) error {
	name, args := "xdg-open", []string{link}
	switch runtime.GOOS {
	case "darwin":
		name = "open"
	case "windows":
		name, args = "rundll32", []string{"url.dll,FileProtocolHandler", link}
	}
	return exec.CommandContext(ctx, name, args...).Run()
}
