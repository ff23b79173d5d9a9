-- scripts/cli/loops.lua - terret loops: see scripts/listing.lua.
return require("terret.listing").command "loops"
