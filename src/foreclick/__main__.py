"""`python -m foreclick`: the command line."""

from foreclick.cli import main
from foreclick.cli.process import end

end(main())
