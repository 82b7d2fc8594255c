package cli

import (
	"github.com/stillhouse-data/stillhouse/training/launch"
	"github.com/stillhouse-data/stillhouse/training/launch/slurm"
)

func init() {
	launcherKinds["slurmrestd"] = func(decode func(any) error) (launch.Launcher, error) {
		var c slurm.RESTConfig
		if err := decode(&c); err != nil {
			return nil, err
		}
		return slurm.NewREST(c)
	}
	launcherKinds["sbatch"] = func(decode func(any) error) (launch.Launcher, error) {
		var c slurm.CLIConfig
		if err := decode(&c); err != nil {
			return nil, err
		}
		return slurm.NewCLI(c)
	}
}
