from omnidc.cli import main

main()
