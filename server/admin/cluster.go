package admin

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/server/cluster"
)

// Cluster is the role of a running server in a cluster. Both members are nil if it is in none.
type Cluster struct {
	Edge   *cluster.Shipping `json:"edge,omitempty"`
	Centre *cluster.Arriving `json:"centre,omitempty"`
}

// WriteOff tells the running centre that an edge is destroyed, so that erasures no longer wait for it.
func (c *Client) WriteOff(ctx context.Context, node uint16) error {
	if c.InProcess() || c.holder != nil {
		return codec.Errorf(codec.KindConflict, "no server runs here; run this at the centre of the cluster while it runs")
	}
	return c.call(ctx, http.MethodPost, fmt.Sprintf("/cluster/edges/%d/write-off", node), nil, nil)
}

// Cluster returns the role of the running server; none if no server runs on this machine.
func (c *Client) Cluster(ctx context.Context) (part Cluster, err error) {
	if c.InProcess() || c.holder != nil {
		return part, nil
	}
	err = c.call(ctx, http.MethodGet, "/cluster", nil, &part)
	return part, err
}

func writeOff(live Live, r *http.Request) error {
	node, err := strconv.ParseUint(r.PathValue("node"), 10, 16)
	if err != nil {
		return codec.Invalid("node", "%q is not the number of an edge", r.PathValue("node"))
	}
	return live.WriteOff(r.Context(), uint16(node))
}
