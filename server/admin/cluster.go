package admin

import (
	"context"
	"net/http"

	"github.com/mnemeproxy/mneme/server/cluster"
)

// Cluster is the part that a running server has in a cluster. Both members are nil for one that is in none.
type Cluster struct {
	Edge   *cluster.Shipping `json:"edge,omitempty"`
	Centre *cluster.Arriving `json:"centre,omitempty"`
}

// Cluster is the part of the running server; none where no server runs on this machine.
func (c *Client) Cluster(ctx context.Context) (part Cluster, err error) {
	if c.InProcess() || c.holder != nil {
		return part, nil
	}
	err = c.call(ctx, http.MethodGet, "/cluster", nil, &part)
	return part, err
}
