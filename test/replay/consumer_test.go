package replay

// consumerEnv makes a test binary a consumer in a process of its own.
const consumerEnv = "REPLAY_CONSUMER"

func consumerMain(string) int { return 0 }
