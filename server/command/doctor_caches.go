package command

import (
	"context"
	"fmt"

	"github.com/mnemeproxy/mneme/server/admin"
	"github.com/mnemeproxy/mneme/server/api"
	"github.com/mnemeproxy/mneme/store/record"
)

// muchLost is what lost prompt caches cost in a week before that is worth a warning.
const muchLost = record.Dollar

// cacheReasons are the reasons why prompt caches are lost, and what helps.
var cacheReasons = map[string]struct{ said, fix string }{
	api.BrokenByModel:    {"another model was asked", "Change models between sessions, not within one"},
	api.BrokenByProvider: {"another provider was asked", "Keep a session on one provider"},
	api.BrokenByPause:    {"the session paused for longer than the provider keeps a cache", "Begin a new session with a handoff after a pause (mneme handoff), or let the client keep its cache for an hour"},
	api.BrokenByTools:    {"other tools were offered", "Offer the same tools from the first request on"},
	api.BrokenByOrder:    {"the same tools came in another order", "Offer tools in a fixed order"},
	api.BrokenByBlock:    {"a text in front of the conversation differs", "Put what changes, such as dates, behind what stays"},
}

// examineCaches reports what lost prompt caches cost in the last week, and what lost most.
func (c *Doctor) examineCaches(ctx context.Context) []finding {
	var (
		lost  record.USD
		worst *api.CacheReason
	)
	err := c.manage(ctx, mustExist, func(client *admin.Client) error {
		accounts, err := client.Accounts().List(ctx)
		if err != nil {
			return err
		}
		for _, account := range accounts {
			report, err := client.Memory().Cache(ctx, account.Name)
			if err != nil {
				return err
			}
			lost += report.Lost
			for _, list := range [][]*api.CacheReason{report.Projects, report.Reasons} { // where the project is known, it is named
				for _, reason := range list {
					if _, known := cacheReasons[reason.Reason]; known && (worst == nil || reason.Lost > worst.Lost) {
						worst = reason
					}
				}
			}
		}
		return nil
	})
	switch {
	case err != nil:
		return nil // the check of accounts says why
	case lost < muchLost || worst == nil:
		return []finding{{"prompt caches", good, "lost ones cost " + dollarText(lost) + " in the last 7 days", ""}}
	}
	reason := cacheReasons[worst.Reason]
	where := ""
	if worst.Project != "" {
		where = " in " + worst.Project
	}
	return []finding{{
		"prompt caches", warning, fmt.Sprintf("lost ones cost %s in the last 7 days, %s of it%s, because %s", dollarText(lost), dollarText(worst.Lost), where, reason.said), reason.fix,
	}}
}
