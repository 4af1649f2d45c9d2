/** Two maps that show the same view, whichever is moved. */
function keepTogether(first, second) {
  let following = false;
  const follow = (work) => {
    if (following) return;
    following = true;
    work();
    following = false;
  };
  for (const [leader, follower] of [[first, second], [second, first]]) {
    leader.on("zoomanim", ({ center, zoom }) => follow(() => follower.setView(center, zoom)));
    leader.on("move", () =>
      follow(() => follower.setView(leader.getCenter(), leader.getZoom(), { animate: false })),
    );
  }
}
