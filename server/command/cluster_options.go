package command

import (
	"errors"
	"fmt"
	"log/slog"
	"strconv"

	"github.com/mnemeproxy/mneme/server/cluster"
	"github.com/mnemeproxy/mneme/server/config"
	frames "github.com/mnemeproxy/mneme/store/ship"
)

// clusterOptions returns the cluster options of a member's configuration.
func clusterOptions(cfg *config.Config, log *slog.Logger) (o cluster.Options, err error) {
	if len(cfg.Cluster.NATS) == 0 {
		return o, errors.New("name the brokers of the cluster in cluster.nats, such as [nats://127.0.0.1:4222]")
	}
	if cfg.ClusterKey == "" {
		return o, fmt.Errorf("set %s to the key that all nodes of the cluster share; `openssl rand -hex 32` makes one", config.EnvClusterKey)
	}
	key, err := frames.NewKey(cfg.ClusterKeyBytes())
	return cluster.Options{
		NATS: cfg.Cluster.NATS, Credentials: cfg.Cluster.Credentials, CA: cfg.Cluster.CA, Replicas: int(cfg.Cluster.Replicas), Waiting: int64(cfg.Cluster.Waiting),
		Key: key, Name: "mneme " + strconv.Itoa(int(cfg.Cluster.Node)), Log: log, MasterKey: cluster.MasterKeyMark(key, cfg.MasterKeyBytes()),
	}, err
}
