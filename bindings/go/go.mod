module penstock

go 1.18
