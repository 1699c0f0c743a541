package cluster

// brokerVariable is set in a process of this test's program that is a broker.
const brokerVariable = "MNEME_TEST_BROKER"

func runBroker(string) int { return 1 }
