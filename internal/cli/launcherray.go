package cli

import (
	"github.com/stillhouse-data/stillhouse/training/launch"
	"github.com/stillhouse-data/stillhouse/training/launch/ray"
)

func init() {
	launcherKinds["ray"] = func(decode func(any) error) (launch.Launcher, error) {
		var c ray.Config
		if err := decode(&c); err != nil {
			return nil, err
		}
		return ray.New(c)
	}
}
