package command

import (
	"os"
	"testing"

	"github.com/mnemeproxy/mneme/store/catalog/postgrestest"
)

func TestMain(m *testing.M) { os.Exit(postgrestest.Main(m)) }
