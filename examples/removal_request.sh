#!/bin/sh
# The same request in a shell, as a cron job or a ticket system would do it.
#
#     sh examples/removal_request.sh
#
# pfedul exits with 0 if it is done, 1 if it failed or was refused, 2 for wrong usage, and 3 if it
# is done but the result is not what --require asks for.
set -eu
cd "$(dirname "$0")" # where the package `hospitals` is
RUN=runs/removal-request-sh

rm -rf "$RUN" # in practice the run is there already
pfedul train "$RUN" --data hospitals.data:clients --model hospitals.model:network \
    --personalization fedper --rounds 12 --lr 0.02 --random-split

# On a sealed copy first, with what changes least, until a setting is good enough.
# $how is two words, an option and its value: so it is not quoted.
for how in "--correction paper" "--correction exclude" "--repair ordinary"; do
    code=0
    pfedul rehearse "$RUN" --client north $how --require forgotten || code=$?
    [ $code -eq 3 ] || break
done
[ $code -eq 0 ] || exit $code

pfedul forget "$RUN" --client north $how --require forgotten \
    --by "case 17" --ground "GDPR Art. 17(1)(b)"
pfedul certificate "$RUN" --require forgotten
