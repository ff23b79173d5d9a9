-- scripts/cli/tools.lua - terret tools: see scripts/listing.lua.
return require("terret.listing").command "tools"
