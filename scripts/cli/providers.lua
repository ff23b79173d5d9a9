-- scripts/cli/providers.lua - terret providers: see scripts/listing.lua.
return require("terret.listing").command "providers"
