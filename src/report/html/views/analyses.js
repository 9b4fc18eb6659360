export const analyses = [];
